-- Under which licences, and in which versions, do we hold full texts?
SELECT coalesce(license, 'unknown') AS license, coalesce(version, 'unknown') AS version, count(*) AS files
FROM artifacts
GROUP BY ALL
ORDER BY files DESC
