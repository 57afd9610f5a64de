-- Yield by publication year.
SELECT year, count(*) AS works,
       count(*) FILTER (reason IN ('ok', 'not-modified')) AS saved,
       round(100 * saved / works, 1) AS percent
FROM outcomes
WHERE retry_at IS NULL
GROUP BY year
ORDER BY year
