"""What every package may use: values, errors, units, options, the plug-in loader, the journal."""
