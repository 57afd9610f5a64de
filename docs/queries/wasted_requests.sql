-- Which requests brought nothing? Those for works that ended without full text, and tries that had to be repeated.
SELECT a.resolver, a.host, count(*) AS sent,
       count(*) FILTER (a.status = 'retry') AS repeated,
       count(*) FILTER (o.reason NOT IN ('ok', 'not-modified', 'html-only')) AS for_nothing,
       round(100 * for_nothing / sent, 1) AS percent
FROM attempts AS a JOIN outcomes AS o USING (work_id)
WHERE NOT a.cache_hit AND a.http_status IS NOT NULL
GROUP BY a.resolver, a.host
HAVING for_nothing + repeated > 0
ORDER BY for_nothing DESC, sent DESC
LIMIT 30
