"""Measured records: one row a measurement, in one table layout, and the operators that each row measured.

`columns` says what a row holds, `read` takes rows from files and refuses bad ones by file and line, `ops` turns the
dimensions of a row into the operators that predict it. `roofline.measure.bench` writes such rows,
`roofline.measure.validate` reads them.
"""
