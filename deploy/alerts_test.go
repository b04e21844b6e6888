package deploy_test

import "time"

const day = 24 * time.Hour

// alertCases are the series, in the notation of scrape, on which each alert fires, and similar
// healthy ones. Fifteen-second steps make 240 an hour.
func alertCases() map[string]alertCase {
	return map[string]alertCase{
		"TollgateNoLeader": {
			fires: []string{
				`tollgate_cluster_leader{instance="a",group="billing"} 0x8`,
				`tollgate_cluster_leader{instance="b",group="billing"} 0x8`,
				`tollgate_cluster_leader{instance="a",group="workspace"} 1x8`,
			},
			quiet: []string{ // it moves within seconds
				`tollgate_cluster_leader{instance="a",group="billing"} 1x4 0x4`,
				`tollgate_cluster_leader{instance="b",group="billing"} 0x5 1x3`,
			},
		},
		"TollgateNoSpareVoter": {
			fires: append(seen("a", 1, 1, 0), voters("a", 3)...),
			quiet: append(append(seen("a", 1, 1, 1), voters("a", 3)...),
				`tollgate_member_reachable{job="b",member="z"} 1x20`, // a cluster of one
				`tollgate_member_voter{job="b",member="z"} 1x20`),
		},
		"TollgateNodeDown": {
			fires: []string{`up 1x4 0x8`},
			quiet: []string{`up 1x4 0x2 1x6`},
		},
		"TollgateNodeNotReady": {
			fires: []string{`tollgate_ready 0x30`},
			quiet: []string{`tollgate_ready 0x10 1 0x18`},
		},
		"TollgateMemberUnreachable": {
			fires: []string{ // one way only
				`tollgate_member_reachable{instance="a",member="n3"} 0x20`,
				`tollgate_member_reachable{instance="c",member="n3"} 1x20`,
			},
			quiet: []string{`tollgate_member_reachable{member="n3"} 0x4 1x16`},
		},
		"TollgateMemberProblem": {
			fires: []string{`tollgate_member_problem{member="n3"} 1x40`},
			quiet: []string{`tollgate_member_problem{member="n3"} 0x40`},
		},
		"TollgateLeaderChanges": {
			fires: []string{`tollgate_cluster_leader_changes_total{group="billing"} 2+1x60`},
			quiet: []string{`tollgate_cluster_leader_changes_total{group="billing"} 2x30 4x30`},
		},
		"TollgateNodeLags": {
			fires: []string{`tollgate_cluster_staleness_seconds{group="billing"} 1x8 6+1x20`},
			quiet: []string{`tollgate_cluster_staleness_seconds{group="billing"} 6x4 0.1x20`},
		},
		"TollgateLeaseOld": {
			fires: []string{
				`tollgate_cluster_leader{group="billing"} 1x10`,
				`tollgate_cluster_lease{group="billing"} 0x10`,
			},
			quiet: []string{
				`tollgate_cluster_leader{group="billing"} 1x10`,
				`tollgate_cluster_lease{group="billing"} 1x10`,
				`tollgate_cluster_lease_age_seconds{group="billing"} 0.1x10`,
				`tollgate_cluster_leader{instance="b",group="billing"} 0x10`,
				`tollgate_cluster_lease{instance="b",group="billing"} 0x10`,
			},
		},
		"TollgateClockSkew": {
			fires: []string{`tollgate_clock_ahead_seconds -2x40`},
			quiet: []string{`tollgate_clock_ahead_seconds -0.2x40`},
		},
		"TollgateClockUnknown": {
			fires: []string{`tollgate_clock_compared 0x40`},
			quiet: []string{`tollgate_clock_compared 1x40`},
		},
		"TollgateVersionsDiffer": {
			fires: []string{
				`tollgate_build_info{instance="a",version="1"} 1x90`,
				`tollgate_build_info{instance="b",version="2"} 1x90`,
			},
			quiet: []string{
				`tollgate_build_info{instance="a",version="1"} 1x90`,
				`tollgate_build_info{instance="b",version="1"} 1x90`,
			},
			step: 5 * time.Minute,
		},
		"TollgateRestarts": {
			fires: []string{`process_start_time_seconds 1x60 2x60 3x60 4x60`},
			quiet: []string{`process_start_time_seconds 1x60 2x60 2x60 2x60`},
		},
		"TollgateCertificateExpires": {
			fires: []string{`tollgate_certificate_expiry_timestamp_seconds{use="peers"} 1100000x20`},
			quiet: []string{`tollgate_certificate_expiry_timestamp_seconds{use="peers"} 1300000x20`},
			step:  5 * time.Minute,
		},
		"TollgateCertificateExpiresSoon": {
			fires: []string{`tollgate_certificate_expiry_timestamp_seconds{use="peers"} 100000x20`},
			quiet: []string{`tollgate_certificate_expiry_timestamp_seconds{use="peers"} 1100000x20`},
			step:  5 * time.Minute,
		},
		"TollgateRefuses": {
			fires: []string{
				`tollgate_http_requests_total{api="client",operation="x",status="201"} 0+90x60`,
				`tollgate_http_requests_total{api="client",operation="x",status="503"} 0+10x60`,
			},
			quiet: []string{ // readiness is asked for all the time
				`tollgate_http_requests_total{api="client",operation="x",status="201"} 0+90x60`,
				`tollgate_http_requests_total{api="admin",operation="readyz",status="503"} 0+90x60`,
			},
		},
		"TollgateRateLimits": {
			fires: []string{
				`tollgate_http_requests_total{api="client",operation="x",status="201"} 0+80x99`,
				`tollgate_http_requests_total{api="client",operation="x",status="429"} 0+20x99`,
			},
			quiet: []string{
				`tollgate_http_requests_total{api="client",operation="x",status="201"} 0+80x99`,
				`tollgate_http_requests_total{api="client",operation="x",status="429"} 0+2x99`,
			},
		},
		"TollgateErrors": {
			fires: []string{`tollgate_http_requests_total{api="client",operation="x",status="500"} 0x40 1x20`},
			quiet: []string{`tollgate_http_requests_total{api="client",operation="x",status="500"} 1x61`},
		},
		"TollgateQueueFull": {
			fires: []string{ // on the way to the leader
				`tollgate_cluster_queue_bytes{group="billing"} 0x10`,
				`tollgate_cluster_forward_bytes{group="billing"} 95x10`,
				`tollgate_cluster_waiting_bytes{group="billing"} 0x10`,
				`tollgate_cluster_queue_limit_bytes{group="billing"} 100x10`,
			},
			quiet: []string{
				`tollgate_cluster_queue_bytes{group="billing"} 50x10`,
				`tollgate_cluster_forward_bytes{group="billing"} 50x10`,
				`tollgate_cluster_waiting_bytes{group="billing"} 50x10`,
				`tollgate_cluster_queue_limit_bytes{group="billing"} 100x10`,
			},
		},
		"TollgateRequestsAtTheLimit": {
			fires: []string{
				`tollgate_http_requests_under_way{listener="http"} 99x10`,
				`tollgate_http_requests_limit{listener="http"} 100x10`,
			},
			quiet: []string{
				`tollgate_http_requests_under_way{listener="http"} 9x10`,
				`tollgate_http_requests_limit{listener="http"} 100x10`,
				`tollgate_http_body_bytes{listener="http"} 9x10`,
				`tollgate_http_body_limit_bytes{listener="http"} 100x10`,
			},
		},
		"TollgateConnectionsRefused": {
			fires: []string{`tollgate_http_connections_refused_total{listener="http"} 0+30x60`},
			quiet: []string{`tollgate_http_connections_refused_total{listener="http"} 0+5x60`},
		},
		"TollgateWritesSlow": {
			fires: []string{
				`tollgate_cluster_commit_seconds_bucket{group="billing",le="0.5"} 0+90x80`,
				`tollgate_cluster_commit_seconds_bucket{group="billing",le="1"} 0+99x80`,
				`tollgate_cluster_commit_seconds_bucket{group="billing",le="+Inf"} 0+100x80`,
			},
			quiet: []string{
				`tollgate_cluster_commit_seconds_bucket{group="billing",le="0.1"} 0+999x80`,
				`tollgate_cluster_commit_seconds_bucket{group="billing",le="1"} 0+1000x80`,
				`tollgate_cluster_commit_seconds_bucket{group="billing",le="+Inf"} 0+1000x80`,
			},
		},
		"TollgateDiskFull": {
			fires: []string{`tollgate_disk_low 0 1`},
			quiet: []string{`tollgate_disk_low 0 0`},
		},
		"TollgateDiskFillsUp": {
			fires: []string{ // 10 GiB, and half a GiB less every hour
				`tollgate_disk_free_bytes 13000000000-40000000x90`,
				`tollgate_disk_reserve_bytes 1073741824x90`,
			},
			quiet: []string{ // the same, of a large disk, and of one that a snapshot frees again
				`tollgate_disk_free_bytes 100000000000-420000000x90`,
				`tollgate_disk_reserve_bytes 1073741824x90`,
				`tollgate_disk_free_bytes{instance="b"} 10000000000x44 9000000000x45`,
				`tollgate_disk_reserve_bytes{instance="b"} 107374182x90`,
			},
			step: 5 * time.Minute,
		},
		"TollgateDiskSlow": {
			fires: []string{
				`tollgate_cluster_fsync_seconds_bucket{group="billing",le="0.1"} 0+90x80`,
				`tollgate_cluster_fsync_seconds_bucket{group="billing",le="0.2"} 0+100x80`,
				`tollgate_cluster_fsync_seconds_bucket{group="billing",le="+Inf"} 0+100x80`,
			},
			quiet: []string{
				`tollgate_cluster_fsync_seconds_bucket{group="billing",le="0.1"} 0+100x80`,
				`tollgate_cluster_fsync_seconds_bucket{group="billing",le="0.2"} 0+100x80`,
				`tollgate_cluster_fsync_seconds_bucket{group="billing",le="+Inf"} 0+100x80`,
			},
		},
		"TollgateSnapshotFailed": {
			fires: []string{`tollgate_cluster_snapshots_failed_total{group="billing"} 0x9 1x9`},
			quiet: []string{`tollgate_cluster_snapshots_failed_total{group="billing"} 1x18`},
		},
		"TollgateSegmentsMissing": {
			fires: []string{`tollgate_cluster_segments_missing{group="billing"} 3x70`},
			quiet: []string{`tollgate_cluster_segments_missing{group="billing"} 3x40 0 3x29`},
		},
		"TollgateBackupOld": {
			fires: []string{
				`tollgate_backup_last_success_timestamp_seconds{instance="a"} 100x60`,
				`tollgate_backup_last_success_timestamp_seconds{instance="b"} 0x60`,
			},
			quiet: []string{ // one node knows of a newer one; of another cluster none are made
				`tollgate_backup_last_success_timestamp_seconds{instance="a"} 100x60`,
				`tollgate_backup_last_success_timestamp_seconds{instance="b"} 150000x60`,
				`tollgate_backup_last_success_timestamp_seconds{job="b"} 0x60`,
			},
			step: time.Hour,
		},
		"TollgateBackupFailed": {
			fires: []string{`tollgate_backups_failed_total 0x9 1x9`},
			quiet: []string{`tollgate_backups_failed_total 1x18`, `tollgate_backup_logs_failed_total 3x18`},
		},
		"TollgateBackupLogOld": {
			fires: []string{
				`tollgate_backup_log_until_timestamp_seconds{instance="a"} 60x60`,
				`tollgate_backup_log_until_timestamp_seconds{instance="b"} 0x60`,
			},
			quiet: []string{ // another node goes on; another cluster keeps none
				`tollgate_backup_log_until_timestamp_seconds{instance="a"} 60x60`,
				`tollgate_backup_log_until_timestamp_seconds{instance="b"} 0+60x60`,
				`tollgate_backup_log_until_timestamp_seconds{job="b"} 0x60`,
			},
			step: time.Minute,
		},
		"TollgateAuditOverdue": {
			fires: []string{
				`tollgate_journal_oldest_timestamp_seconds{part="audit"} 3600x40`,
				`tollgate_audit_retention_seconds 2592000x40`,
			},
			quiet: []string{ // usage is kept forever, and no check was answered
				`tollgate_journal_oldest_timestamp_seconds{part="usage"} 3600x40`,
				`tollgate_journal_oldest_timestamp_seconds{part="audit"} 0x40`,
				`tollgate_audit_retention_seconds 2592000x40`,
			},
			step: day,
		},
		"TollgateAuditSpool": {
			fires: []string{`tollgate_audit_spool_bytes 100000000x20`},
			quiet: []string{`tollgate_audit_spool_bytes 1000000x20`},
		},
		"TollgateKeysFull": {
			fires: []string{
				`tollgate_idempotency_keys 95x150`, `tollgate_idempotency_keys_limit 100x150`,
			},
			quiet: []string{
				`tollgate_idempotency_keys 50x150`, `tollgate_idempotency_keys_limit 100x150`,
				`tollgate_idempotency_keys_days_left 30x150`,
			},
		},
		"TollgateKeysStayInMemory": {
			fires: []string{
				`tollgate_idempotency_keys 60x70`, `tollgate_idempotency_keys_on_disk 0x70`,
				`tollgate_idempotency_keys_memory_limit 100x70`,
				`tollgate_idempotency_keys_limit 1000x70`,
			},
			quiet: []string{ // most are on disk, and where none do, the other alert fires
				`tollgate_idempotency_keys{instance="a"} 800x70`,
				`tollgate_idempotency_keys_on_disk{instance="a"} 775x70`,
				`tollgate_idempotency_keys_memory_limit{instance="a"} 100x70`,
				`tollgate_idempotency_keys_limit{instance="a"} 1000x70`,
				`tollgate_idempotency_keys{instance="b"} 600x70`,
				`tollgate_idempotency_keys_on_disk{instance="b"} 0x70`,
				`tollgate_idempotency_keys_memory_limit{instance="b"} 1000x70`,
				`tollgate_idempotency_keys_limit{instance="b"} 1000x70`,
			},
		},
		"TollgateKeysUncovered": {
			fires: []string{`tollgate_cluster_keys_uncovered{group="billing"} 3x70`},
			quiet: []string{`tollgate_cluster_keys_uncovered{group="billing"} 3x40 0 3x29`},
		},
		"TollgateKeyFilesFail": {
			fires: []string{`tollgate_cluster_key_files_failed_total{group="billing"} 0+1x130`},
			quiet: []string{`tollgate_cluster_key_files_failed_total{group="billing"} 0x40 1x90`},
		},
		"TollgateReservationsFull": {
			fires: []string{ // 100 a minute more: full in 20 hours
				`tollgate_reservations 0+100x70`, `tollgate_reservations_limit 100000x70`,
			},
			quiet: []string{
				`tollgate_reservations 70000+1x70`, `tollgate_reservations_limit 100000x70`,
			},
		},
		"TollgateMemory": {
			fires: []string{`process_resident_memory_bytes 97x70`, `go_gc_gomemlimit_bytes 100x70`},
			quiet: []string{`process_resident_memory_bytes 50x70`, `go_gc_gomemlimit_bytes 100x70`},
		},
		"TollgateInvoiceDiffers": {
			fires: []string{`tollgate_verification_differences_total 0x9 2x9`},
			quiet: []string{
				`tollgate_verification_differences_total 0x18`, `tollgate_verifications_failed_total 0x18`,
			},
		},
		"TollgateWebhooksPile": {
			fires: []string{`tollgate_webhook_messages_pending 0+2x300`},
			quiet: []string{`tollgate_webhook_messages_pending 600-2x290`},
		},
		"TollgateWebhooksSkipped": {
			fires: []string{`tollgate_webhook_messages_skipped 0x30 5x30`},
			quiet: []string{`tollgate_webhook_messages_skipped 5x60`},
		},
	}
}

// seen are the members as a node sees them.
func seen(node string, reachable ...byte) (lines []string) {
	for i, r := range reachable {
		lines = append(lines, `tollgate_member_reachable{instance="`+node+`",member="n`+
			string(rune('1'+i))+`"} `+string('0'+rune(r))+`x20`)
	}
	return lines
}

func voters(node string, count int) (lines []string) {
	for i := range count {
		lines = append(lines, `tollgate_member_voter{instance="`+node+`",member="n`+
			string(rune('1'+i))+`"} 1x20`)
	}
	return lines
}
