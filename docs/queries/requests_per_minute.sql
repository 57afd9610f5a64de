-- How fast were we with each host? Never faster than its limit.
SELECT host, date_trunc('minute', ts) AS minute, count(*) AS requests
FROM attempts
WHERE NOT cache_hit AND http_status IS NOT NULL
GROUP BY ALL
ORDER BY requests DESC
LIMIT 20
