SELECT COUNT(*), SUM(c), SUM(r), SUM(w), SUM("WatchID" % 1000003 * c), SUM("ClientIP" % 1000003 * c)
FROM (
    SELECT "WatchID", "ClientIP", COUNT(*) AS c, SUM("IsRefresh") AS r, AVG("ResolutionWidth") AS w
    FROM hits GROUP BY "WatchID", "ClientIP"
)
