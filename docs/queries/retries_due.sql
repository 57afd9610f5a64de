-- Works that wait for a retry, by hour, reason and host.
SELECT date_trunc('hour', retry_at) AS hour, reason, regexp_extract(url, '^[a-z]+://([^/:?#]+)', 1) AS host, count(*) AS works
FROM outcomes
WHERE retry_at IS NOT NULL
GROUP BY ALL
ORDER BY hour, works DESC
