"""How the tables come to be; one initial migration until the first release."""
