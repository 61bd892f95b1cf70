-- Room on every heap page so that a reschedule stays on it (HOT, D2); vacuum before the room is used up.
ALTER TABLE renderqueue_renderschedule SET (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05
);
-- Leases come and go: keep the small table small.
ALTER TABLE renderqueue_lease SET (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500
);
ALTER TABLE renderqueue_node SET (fillfactor = 50);
-- A report is worth a few seconds: it need not survive a crash of the database.
ALTER TABLE renderqueue_nodereport SET UNLOGGED;
ALTER TABLE renderqueue_nodereport SET (fillfactor = 50);
