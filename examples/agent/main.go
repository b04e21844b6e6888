// Agent is an example of an agent for `exec`: it asks the product for a key at POST {url}/keys, as
// a product for agents might offer it, and hands the key over. The protocol is in
// server/provider/runner/DESIGN.md.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

type task struct {
	Type, RunID, URL, Task, Credential string
}

func say(fields map[string]any) {
	line, err := json.Marshal(fields)
	if err == nil {
		_, err = fmt.Println(string(line))
	}
	if err != nil {
		os.Exit(1)
	}
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<10)
	var t task
	if !in.Scan() || json.Unmarshal(in.Bytes(), &t) != nil {
		os.Exit(2)
	}
	go func() { // cancel, or a server that has gone
		for in.Scan() {
			if strings.Contains(in.Text(), `"cancel"`) {
				break
			}
		}
		os.Exit(3)
	}()
	if t.Credential == "" {
		say(map[string]any{"type": "done", "step": "understand"})
		return
	}
	say(map[string]any{"type": "event", "text": "asks for a key"})
	key, err := askForKey(strings.TrimSuffix(t.URL, "/") + "/keys")
	if err != nil {
		say(map[string]any{
			"type": "done", "blocked": true, "step": "acquire_credential", "code": "no_key",
			"reason": err.Error(),
		})
		return
	}
	say(map[string]any{"type": "credential", "value": key})
	say(map[string]any{"type": "done", "step": "authenticate"})
}

func askForKey(url string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Post(url, "application/json", strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if closed := answer.Body.Close(); err == nil {
		err = closed
	}
	var made struct{ Key string }
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err == nil && made.Key == "" {
		err = fmt.Errorf("the product gave no key (%s)", answer.Status)
	}
	return made.Key, err
}
