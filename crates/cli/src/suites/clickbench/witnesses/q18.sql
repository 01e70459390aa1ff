SELECT COUNT(*), SUM(c), SUM("UserID" % 1000003 * c), SUM(octet_length("SearchPhrase") * c)
FROM (SELECT "UserID", "SearchPhrase", COUNT(*) AS c FROM hits GROUP BY "UserID", "SearchPhrase")
