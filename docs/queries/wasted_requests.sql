-- Wasted requests: those for works without full text, and those that had to be repeated.
SELECT a.resolver, a.host, count(*) AS sent,
       count(*) FILTER (a.status = 'retry') AS repeated,
       count(*) FILTER (o.reason NOT IN ('ok', 'not-modified', 'html-only')) AS without_full_text,
       round(100 * without_full_text / sent, 1) AS percent
FROM attempts AS a JOIN outcomes AS o USING (work_id)
WHERE NOT a.cache_hit AND a.http_status IS NOT NULL
GROUP BY a.resolver, a.host
HAVING without_full_text + repeated > 0
ORDER BY without_full_text DESC, sent DESC
LIMIT 30
