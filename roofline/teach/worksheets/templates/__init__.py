"""Templates of problems, one a file; `roofline.teach.worksheets` says what is in one."""
