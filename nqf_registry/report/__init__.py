"""The catalogue: what is measured of every entry, and the files it is written to.

``catalogue`` gathers rows, ``markdown``, ``latex``, ``csv_table``, ``json_files`` and ``html_page`` write them, ``comparison``
holds them against what is committed, and ``picture`` draws A(x).
"""
