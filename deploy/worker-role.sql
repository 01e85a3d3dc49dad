-- The database role of a worker on a GPU host. Run it as the owner of Headroom's tables, after each `manage.py migrate`:
--
--     psql -d headroom -f deploy/worker-role.sql
--     psql -d headroom -c '\password headroom_worker'
--
-- The role claims cells and writes evidence, readings of its host, heartbeats and events. It has no right to write
-- authorisations, plans, hosts, people or anything that judges (capacity_*), and it reads no password.
-- Run again, it takes away what this file does not give.

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'headroom_worker') THEN
        CREATE ROLE headroom_worker LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;
    END IF;
END $$;

REVOKE CREATE ON SCHEMA public FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM headroom_worker;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM headroom_worker;
GRANT USAGE ON SCHEMA public TO headroom_worker;

-- What it reads: what is to be run, for whom, and what the host allows.
GRANT SELECT ON
    benchmarks_team, benchmarks_hardware, benchmarks_hardwareprobe, benchmarks_workerkey, benchmarks_runtime,
    benchmarks_workload, benchmarks_lengthclass, benchmarks_endpointcheck, benchmarks_grid, benchmarks_authorization,
    benchmarks_conditions, benchmarks_cell, benchmarks_attempt, benchmarks_evidence, benchmarks_evidencechunk,
    benchmarks_supersededevidence, benchmarks_event
TO headroom_worker;

-- What it adds, and never changes: triggers refuse an UPDATE of most of these to everybody.
GRANT INSERT ON
    benchmarks_hardwareprobe, benchmarks_cell, benchmarks_attempt, benchmarks_evidence, benchmarks_evidencechunk,
    benchmarks_supersededevidence, benchmarks_event
TO headroom_worker;
GRANT USAGE ON
    benchmarks_hardwareprobe_id_seq, benchmarks_cell_id_seq, benchmarks_attempt_id_seq, benchmarks_evidence_id_seq,
    benchmarks_evidencechunk_id_seq, benchmarks_supersededevidence_id_seq, benchmarks_event_id_seq
TO headroom_worker;

-- What it moves on: column by column, so that no plan, no target and no ceiling is among them.
GRANT UPDATE (
    status, attempt, claimed_by, heartbeat_at, started_at, finished_at, reason, progress, summary, verdict
) ON benchmarks_cell TO headroom_worker;
GRANT UPDATE (ended_at, outcome, reason, conditions) ON benchmarks_attempt TO headroom_worker;
GRANT UPDATE (
    status, stop_requested, stop_reason, started_at, finished_at, progress_version, probe_id, calibration, baseline, answer,
    paused_at, paused_by
) ON benchmarks_grid TO headroom_worker;
GRANT UPDATE (worker_seen_at, worker_name, offers) ON benchmarks_hardware TO headroom_worker;
GRANT UPDATE (status, result, finished_at) ON benchmarks_endpointcheck TO headroom_worker;
-- Whoever adds an event locks the first one, for which PostgreSQL wants this right; a trigger refuses the change itself.
GRANT UPDATE (reason) ON benchmarks_event TO headroom_worker;

-- Enrolment goes through this door alone: only who knows the one-time key of a host can become its worker.
CREATE OR REPLACE FUNCTION headroom_enrol(one_time_key text, worker_name text, public_half text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
    mine benchmarks_workerkey%ROWTYPE;
BEGIN
    SELECT * INTO mine FROM benchmarks_workerkey
    WHERE token_sha256 = encode(sha256(convert_to(one_time_key, 'UTF8')), 'hex')
        AND used_at IS NULL AND revoked_at IS NULL AND expires_at > now()
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE benchmarks_workerkey SET revoked_at = now()
    WHERE hardware_id = mine.hardware_id AND used_at IS NOT NULL AND revoked_at IS NULL;
    UPDATE benchmarks_workerkey SET used_at = now(), worker = left(worker_name, 200), public_key = public_half
    WHERE id = mine.id;
    RETURN true;
END $$;
REVOKE ALL ON FUNCTION headroom_enrol(text, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION headroom_enrol(text, text, text) TO headroom_worker;
