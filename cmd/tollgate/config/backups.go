package config

import "time"

// Backups say when backups are made, by which node, and how many stay.
type Backups struct {
	// Folder is where they are kept: a folder, or a bucket (s3://BUCKET/PREFIX), for which the
	// environment says who asks; empty makes none.
	Folder string `yaml:"folder"`
	// Incremental keeps the segments of the journal as files next to the backups, so that each writes
	// only what is new of them.
	Incremental bool `yaml:"incremental"`
	// Node makes them; empty: the leader of the billing group when one is due.
	Node string `yaml:"node"`
	// Every is the time between two: 1 min to 31 days. At, when set, is a time of day in UTC as in
	// "03:30", and counts instead.
	Every time.Duration `yaml:"every"`
	At    string        `yaml:"at"`
	// LogEvery is how often the log since the last time is kept, too, 10 s to 10 min, so that a
	// restore can go to any moment; 0 keeps none. Each time makes two files.
	LogEvery time.Duration `yaml:"logEvery"`
	// Keep is how many of the newest always stay, 1 to 10000; of the others, those go that are older
	// than KeepFor.
	Keep    int           `yaml:"keep"`
	KeepFor time.Duration `yaml:"keepFor"`
	// MiBPerSecond is the pace, 1 to 65536.
	MiBPerSecond int `yaml:"mibPerSecond"`
}

// timeOfDay is how At is written.
const timeOfDay = "15:04"

// Daily is At as what has passed since midnight; -1 when it is not set.
func (b *Backups) Daily() time.Duration {
	at, err := time.Parse(timeOfDay, b.At)
	if err != nil {
		return -1
	}
	return time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
}

func (b *Backups) validate(complain complainer) {
	complain.when(b.Every < time.Minute || b.Every > 31*24*time.Hour,
		"backups.every: %s: want 1m to 744h", b.Every)
	complain.when(b.At != "" && b.Daily() < 0,
		"backups.at: %q: want a time of day in UTC such as 03:30", b.At)
	complain.when(b.Incremental && b.Node == "",
		"backups.incremental: want node, too: two nodes would delete files that the other has just written")
	complain.when(b.LogEvery != 0 && (b.LogEvery < 10*time.Second || b.LogEvery > 10*time.Minute),
		"backups.logEvery: %s: want 0, or 10s to 10m", b.LogEvery)
	complain.when(b.Keep < 1 || b.Keep > 10_000 || b.KeepFor < 0,
		"backups.keep, backups.keepFor: want 1 to 10000, and no negative time")
	complain.within("backups.mibPerSecond", b.MiBPerSecond, 1, 1<<16)
}
