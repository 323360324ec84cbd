"""What a driver's author tests a driver with; no test framework and no Django."""
