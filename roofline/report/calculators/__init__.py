"""Pages that answer a question for any hardware in the browser: one operator, one claim."""
