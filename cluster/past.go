package cluster

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"tollgate/wal"
)

// ErrPutBack means that a data folder is older than what its node has promised since: someone put
// an older copy in its place.
var ErrPutBack = errors.New("cluster: this data folder is an older copy: its node has promised " +
	"more since")

// putBackError is ErrPutBack as another member found it.
type putBackError struct{ who, lacks string }

func (e *putBackError) Error() string {
	return fmt.Sprintf("%s: it lacks %s, says %s", ErrPutBack, e.lacks, e.who)
}

func (e *putBackError) Is(target error) bool { return target == ErrPutBack }

const (
	pastName = "past"
	// startBytes is the length of a start's number.
	startBytes = 8
	// maxStarts is how many of its starts a folder keeps.
	maxStarts = 64
	// maxKnown is of how many other members a folder keeps the past.
	maxKnown = 32
	// maxDeparted is how many names of former members a folder keeps.
	maxDeparted = 256
	// pastEvery is how often news of other members is written to disk; a newer term is written at
	// once.
	pastEvery = time.Second
)

// pastTwin is the file of what a node knows of its own starts, and of the others' promises. Its
// content is a pastContent as JSON.
var pastTwin = twinKind{
	what: "starts and promises", magic: "TGPAST\x00\x01", copyBytes: 32 << 10,
}

// starts are the newest starts of a folder, each a random number, the newest last.
type starts struct {
	// Count is how many there have been.
	Count uint64   `json:"count"`
	IDs   []string `json:"ids"`
}

func (s *starts) newest() string { return s.IDs[len(s.IDs)-1] }

// add draws the number of another start.
func (s *starts) add() {
	var id [startBytes]byte
	rand.Read(id[:]) // never fails
	s.Count++
	s.IDs = append(slices.Clone(s.IDs), hex.EncodeToString(id[:]))
	s.IDs = s.IDs[max(0, len(s.IDs)-maxStarts):]
}

// at returns the nth start, counted from 1; false if it is older than those kept.
func (s *starts) at(number uint64) (id string, kept bool) {
	behind := s.Count - number
	if number > s.Count || behind >= uint64(len(s.IDs)) {
		return "", false
	}
	return s.IDs[len(s.IDs)-1-int(behind)], true
}

// claim is what a node says of its folder: its starts, and what the folder held at the newest one.
// A process says the same of both as long as it lives, so no claim is older than another of it.
type claim struct {
	Starts starts  `json:"starts"`
	Opened [2]mark `json:"opened"`
}

// memberPast is what a node knows of another member, and of itself: its newest start, and what it
// has promised since.
type memberPast struct {
	// Disk is the identity of the folder: its replacement begins a new past.
	Disk  string  `json:"disk"`
	Count uint64  `json:"count"`
	Start string  `json:"start"`
	Marks [2]mark `json:"marks"`
	// Leaders are the newest leaders that this node has followed or been; of itself alone.
	Leaders [2]termLeader `json:"leaders,omitzero"`
}

// judge says what a folder lacks of what is known of it; "" if nothing. It compares marks only when
// the start is a newer one: those of one process only grow.
func judge(k memberPast, said claim) (lacks string) {
	switch id, kept := said.Starts.at(k.Count); {
	case k.Count > said.Starts.Count:
		return fmt.Sprintf("start %d, and this folder was started %d times", k.Count,
			said.Starts.Count)
	case kept && id != k.Start:
		return fmt.Sprintf("start %d (%s), and has another one in its place (%s)", k.Count, k.Start,
			id)
	case k.Count == said.Starts.Count:
		return ""
	}
	for i, name := range groupNames {
		if lacks = k.Marks[i].missingIn(said.Opened[i]); lacks != "" {
			return "in group " + name + " " + lacks
		}
	}
	return ""
}

// pastContent is what the file holds.
type pastContent struct {
	Starts starts `json:"starts"`
	// Refused is why this folder was refused. It stays refused: otherwise a later start would be
	// accepted while the members that know better are down.
	Refused string                `json:"refused,omitempty"`
	Known   map[string]memberPast `json:"known"` // by the name of the member
	// Members were the members at the last write. Departed are former ones, the newest last: a
	// removal that is repeated through another node differs from a misspelt name.
	Members  []string `json:"members,omitempty"`
	Departed []string `json:"departed,omitempty"`
}

// past keeps a node's own starts, and what the other members have promised. What it
// reports as recorded is on disk.
type past struct {
	node, disk, dir string
	raft            string // the node's address, for the text of a refusal
	claimed         claim
	fatal           func(error)
	// members returns the members; nil: not known yet.
	members func() []string
	// gather returns what the others' messages revealed.
	gather func()
	// own is what this node has promised; nil until its groups run.
	own func() ([2]mark, [2]termLeader)

	mu      sync.Mutex
	content pastContent
	dirty   bool
	urgent  chan struct{}

	// file allows one write at a time; it is taken before mu. It is a channel because a write may take
	// time: a test's virtual time passes while others wait for a channel, but not for a mutex.
	file   chan struct{}
	twin   *twin
	failed error
}

// openPast opens or creates a folder's file and adds a start, which is on disk when it returns. A
// folder that was refused before is refused again.
func openPast(
	fsys wal.FS, dir string, self Member, disk string, opened [2]mark, log *slog.Logger,
) (*past, error) {
	name := filepath.Join(dir, pastName)
	p := &past{
		file: make(chan struct{}, 1),
		node: self.ID, raft: self.Raft, disk: disk, dir: dir, urgent: make(chan struct{}, 1),
	}
	t, content, bad, err := pastTwin.open(fsys, name)
	switch {
	case errors.Is(err, errNoTwin):
	case errors.Is(err, ErrDamaged):
		return nil, fmt.Errorf("%w; nothing was changed; %s", err, wal.Rejoin)
	case err != nil:
		return nil, err
	default:
		if err := p.read(content, opened); err != nil {
			return nil, errors.Join(err, t.close())
		}
		for i, why := range bad {
			if why != nil {
				log.Warn("one copy of starts and promises was bad; it is written again from the other",
					"file", name, "copy", i, "reason", why)
			}
		}
	}
	if p.content.Known == nil {
		p.content.Known = make(map[string]memberPast)
	}
	p.content.Starts.add()
	p.claimed = claim{p.content.Starts, opened}
	text, err := json.Marshal(p.content)
	if err != nil {
		return nil, fmt.Errorf("cluster: starts: %w", err)
	}
	if p.twin = t; t == nil {
		p.twin, err = pastTwin.create(fsys, name, 0, text)
		return p, err
	}
	t.sequence++
	if err = t.rewrite(text); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: write starts: %w", err), t.close())
	}
	return p, nil
}

// lookAtPast reports whether a folder was refused as an older copy. It changes nothing.
func lookAtPast(dir string) error {
	t, content, _, err := pastTwin.open(wal.OS(), filepath.Join(dir, pastName))
	if errors.Is(err, errNoTwin) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join((&past{dir: dir}).read(content, [2]mark{}), t.close())
}

// read reads the file, and returns why no node may start on the folder.
func (p *past) read(content []byte, opened [2]mark) error {
	if err := json.Unmarshal(content, &p.content); err != nil || len(p.content.Starts.IDs) == 0 {
		return fmt.Errorf("%w: %s cannot be read; %s", ErrDamaged, filepath.Join(p.dir, pastName),
			wal.Rejoin)
	}
	if why := p.content.Refused; why != "" {
		return fmt.Errorf("%w: %s", ErrPutBack, why)
	}
	self, ok := p.content.Known[p.node]
	if !ok || self.Disk != p.disk {
		return nil
	}
	for i, name := range groupNames {
		if opened[i] == (mark{}) {
			continue // all of it is gone, which Group.begin reports
		}
		if lacks := self.Marks[i].missingIn(opened[i]); lacks != "" {
			return fmt.Errorf("%w: %s", ErrPutBack, p.putBack("in group "+name+" "+lacks,
				"its own file "+pastName+": files of different times were put together"))
		}
	}
	return nil
}

// putBack is the text of a refusal, with what the operator can do.
func (p *past) putBack(lacks, who string) string {
	return fmt.Sprintf("%s lacks %s, says %s; nothing was changed; put back the folder that the node "+
		"ran with last; if that is lost, or refused too, run `tollgate cluster remove %s` on another "+
		"node, move this folder away and keep it, start with `join: true` and without `members`, and "+
		"run `tollgate cluster join %[4]s --raft %s`", p.dir, lacks, who, p.node, p.raft)
}

// admit judges what another member claims, and records it durably. It returns why the claim is
// refused; an error means that the disk failed.
func (p *past) admit(node, disk string, said claim) (lacks string, err error) {
	if len(said.Starts.IDs) == 0 {
		return "", nil // a folder that has not begun
	}
	p.mu.Lock()
	k, ok := p.content.Known[node]
	ok = ok && k.Disk == disk
	if ok {
		if lacks = judge(k, said); lacks != "" {
			p.mu.Unlock()
			return lacks, nil
		}
		if k.Count >= said.Starts.Count {
			p.mu.Unlock()
			return "", p.save() // another connection of that start may not have written it yet
		}
	} else if k = (memberPast{Disk: disk}); len(p.content.Known) >= maxKnown {
		p.mu.Unlock()
		return "", nil
	}
	k.Count, k.Start = said.Starts.Count, said.Starts.newest()
	for i := range k.Marks {
		k.Marks[i] = k.Marks[i].and(said.Opened[i])
	}
	p.content.Known[node] = k
	p.dirty = true
	p.mu.Unlock()
	return "", p.save()
}

// receive records what a member has promised so far, in the start that it names.
func (p *past) receive(node, start string, said [2]mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.content.Known[node]
	if !ok || k.Start != start {
		return
	}
	before := k.Marks
	for i := range said {
		k.Marks[i] = k.Marks[i].and(said[i])
	}
	if k.Marks == before {
		return
	}
	p.content.Known[node] = k
	p.dirty = true
	if k.Marks[0].Term > before[0].Term || k.Marks[1].Term > before[1].Term {
		select {
		case p.urgent <- struct{}{}:
		default:
		}
	}
}

// learn records what a member is known to have promised in a group, in any start.
func (p *past) learn(node string, group int, m mark) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.content.Known[node]
	if !ok {
		return
	}
	before := k.Marks[group]
	if k.Marks[group] = before.and(m); k.Marks[group] != before {
		p.content.Known[node] = k
		p.dirty = true
	}
}

// before is how far this node knew a group to be committed before this start, and the newest
// leader that it followed.
func (p *past) before(group uint16) (committed uint64, leader termLeader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	self := p.content.Known[p.node]
	return self.Marks[group].Committed, self.Leaders[group]
}

// keep writes what was received, until closing is closed.
func (p *past) keep(closing <-chan struct{}) {
	tick := time.NewTicker(pastEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.gather()
			p.noteOwn()
		case <-p.urgent:
		case <-closing:
			return
		}
		if err := p.save(); err != nil {
			p.fatal(err)
			return
		}
	}
}

// noteOwn records what this node has promised, and forgets former members.
func (p *past) noteOwn() {
	own, leaders := p.own()
	members := p.members()
	p.mu.Lock()
	defer p.mu.Unlock()
	k := memberPast{p.disk, p.claimed.Starts.Count, p.claimed.Starts.newest(), own, leaders}
	for i, before := range p.content.Known[p.node].Marks {
		k.Marks[i].Committed = max(k.Marks[i].Committed, before.Committed)
	}
	if p.content.Known[p.node] != k {
		p.content.Known[p.node] = k
		p.dirty = true
	}
	departed := slices.Clone(p.content.Departed)
	noted := slices.AppendSeq(slices.Clone(p.content.Members), maps.Keys(p.content.Known))
	for _, node := range noted {
		if node != p.node && !slices.Contains(members, node) && !slices.Contains(departed, node) {
			departed = append(departed, node)
		}
	}
	departed = slices.DeleteFunc(departed, func(node string) bool {
		return slices.Contains(members, node)
	})
	departed = departed[max(0, len(departed)-maxDeparted):]
	slices.Sort(members)
	if !slices.Equal(departed, p.content.Departed) || !slices.Equal(members, p.content.Members) {
		p.content.Departed, p.content.Members, p.dirty = departed, members, true
	}
	maps.DeleteFunc(p.content.Known, func(node string, _ memberPast) bool {
		return node != p.node && !slices.Contains(members, node)
	})
}

// wasMember reports whether a node is recorded as a member or former member.
func (p *past) wasMember(node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.content.Known[node]
	return known || slices.Contains(p.content.Members, node) ||
		slices.Contains(p.content.Departed, node)
}

// save writes what has changed.
func (p *past) save() error {
	p.file <- struct{}{}
	defer func() { <-p.file }()
	if p.failed != nil {
		return p.failed
	}
	p.mu.Lock()
	if !p.dirty {
		p.mu.Unlock()
		return nil
	}
	p.dirty = false
	text, err := json.Marshal(p.content)
	p.mu.Unlock()
	if err == nil {
		err = p.twin.replace(text)
	}
	if err != nil {
		p.failed = fmt.Errorf("cluster: write starts and promises: %w", err)
	}
	return p.failed
}

// refuse records that this folder was refused, and returns the error with which the process ends.
func (p *past) refuse(lacks, who string) error {
	why := p.putBack(lacks, who)
	p.mu.Lock()
	p.content.Refused, p.dirty = why, true
	p.mu.Unlock()
	return errors.Join(fmt.Errorf("%w: %s", ErrPutBack, why), p.save())
}

func (p *past) close() error {
	p.file <- struct{}{}
	defer func() { <-p.file }()
	return p.twin.close()
}
