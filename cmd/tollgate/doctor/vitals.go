package doctor

import "time"

// Vitals are what a node says of itself and of its machine.
//
//schema:client NodeVitals
type Vitals struct {
	Node string `json:"node"`
	// Build is the build's name of itself; EntryFormat the version of log entries that it writes.
	Build       string `json:"build"`
	EntryFormat uint32 `json:"entryFormat"`
	// StartedAt is when the process began.
	StartedAt time.Time `json:"startedAt"`
	// ClockUnsynchronised reports whether, as far as the kernel knows, no program synchronizes the
	// machine's clock.
	ClockUnsynchronised bool          `json:"clockUnsynchronised"`
	OpenFiles           OpenFiles     `json:"openFiles"`
	Disk                Disk          `json:"disk"`
	Memory              Memory        `json:"memory"`
	Keys                Keys          `json:"idempotencyKeys"`
	Reservations        Reservations  `json:"reservations"`
	Certificates        []Certificate `json:"certificates"`
	Backups             Backups       `json:"backups"`
	// Shared are settings that should be the same on every node, by their names; secrets as a
	// fingerprint.
	Shared map[string]string `json:"shared"`
}

// OpenFiles compares a process's limit of open files with what its settings may need: Own for
// itself, the rest for clients.
//
//schema:client NodeFiles
type OpenFiles struct {
	Limit  uint64 `json:"limit"`
	Needed uint64 `json:"needed"`
	Own    uint64 `json:"own"`
}

// Disk is the file system of the data folder. Below ReserveBytes of free space writes are refused.
//
//schema:client NodeDisk
type Disk struct {
	Folder       string `json:"folder"`
	TotalBytes   int64  `json:"totalBytes"`
	FreeBytes    int64  `json:"freeBytes"`
	ReserveBytes int64  `json:"reserveBytes"`
	// Syncs were made of 4 KiB each; of their times, in microseconds, the middle and the longest.
	Syncs         int   `json:"syncs"`
	SyncMedianUS  int64 `json:"syncMedianUs"`
	SyncLongestUS int64 `json:"syncLongestUs"`
	// Problem is why it could not be looked at, "" when it could.
	Problem string `json:"problem"`
}

// Memory is what the process may use, what the machine (or its cgroup) has, and what is used.
//
//schema:client NodeMemory
type Memory struct {
	LimitBytes   uint64 `json:"limitBytes"`
	MachineBytes uint64 `json:"machineBytes"`
	UsedBytes    uint64 `json:"usedBytes"`
}

// Reservations are how many are kept, open and closed, and how many fit their budget.
//
//schema:client NodeReservations
type Reservations struct {
	Kept  uint64 `json:"kept"`
	Limit uint64 `json:"limit"`
}

// Keys are the idempotency keys held, and how many fit their budget; OnDisk of them have left
// memory, where the filters of their files take FilterBytes. At most MemoryLimit may be in memory.
// Uncovered are in no file of this node yet, and Problem is why its files cannot be made.
//
//schema:client NodeKeys
type Keys struct {
	Held        uint64 `json:"held"`
	Limit       uint64 `json:"limit"`
	OnDisk      uint64 `json:"onDisk"`
	MemoryLimit uint64 `json:"memoryLimit"`
	FilterBytes uint64 `json:"filterBytes"`
	Uncovered   uint64 `json:"uncovered"`
	Problem     string `json:"problem"`
}

// Certificate is one that a node shows, or an authority that it trusts.
//
//schema:client NodeCertificate
type Certificate struct {
	// Use is what it is for: peers, http, ops, or authority.
	Use  string `json:"use"`
	File string `json:"file"`
	// From and Until bound when it is valid: of the one in use, whatever the file holds by now.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Problem is what is wrong with it, or why what lies in the file by now was not taken; "" where
	// nothing is.
	Problem string `json:"problem"`
}

// Backups are the scheduled ones, as far as this node knows.
//
//schema:client NodeBackups
type Backups struct {
	// Folder is "" where none are made. Makes reports whether this node is to make them.
	Folder       string `json:"folder"`
	Makes        bool   `json:"makes"`
	EverySeconds int64  `json:"everySeconds"`
	// Last is when the newest was begun, zero for none; Failed counts those that could not be made
	// since the process began, and LogFailed the times that the log was not kept.
	Last      time.Time `json:"last"`
	Failed    uint64    `json:"failed"`
	LogFailed uint64    `json:"logFailed,omitempty"`
}
