-- Licences and versions of the stored full texts.
SELECT coalesce(license, 'unknown') AS license, coalesce(version, 'unknown') AS version, count(*) AS files
FROM artifacts
GROUP BY ALL
ORDER BY files DESC
