-- Slowest hosts: response times, and time waited for our own rate limits.
SELECT host, count(*) AS requests,
       round(quantile_cont(elapsed_ms, 0.5)) AS median_ms,
       round(quantile_cont(elapsed_ms, 0.95)) AS p95_ms,
       round(sum(TRY_CAST(json_extract_string(extra, '$.sleep_ms') AS DOUBLE)) / 1000, 1) AS waited_s
FROM attempts
WHERE NOT cache_hit AND elapsed_ms IS NOT NULL
GROUP BY host
ORDER BY p95_ms DESC
LIMIT 20
