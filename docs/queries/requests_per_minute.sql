-- Requests per host and minute, to compare with the rate limits.
SELECT host, date_trunc('minute', ts) AS minute, count(*) AS requests
FROM attempts
WHERE NOT cache_hit AND http_status IS NOT NULL
GROUP BY ALL
ORDER BY requests DESC
LIMIT 20
