"""What the operating system and Python give: files, processes, errors, text, compiled code."""
