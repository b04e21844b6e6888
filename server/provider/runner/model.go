package runner

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate/server/provider/fetch"
)

// Dialect is how an endpoint of language models is spoken with.
type Dialect string

// The dialects.
const (
	// DialectOpenAI is POST …/chat/completions with tools, as OpenAI and many others have it.
	DialectOpenAI Dialect = "openai"
	// DialectAnthropic is POST …/messages with tools.
	DialectAnthropic Dialect = "anthropic"
)

// Known reports whether an endpoint can be spoken with so.
func (d Dialect) Known() bool { return d == DialectOpenAI || d == DialectAnthropic }

// anthropicVersion is the version of the API whose shape is spoken.
const anthropicVersion = "2023-06-01"

// Endpoint is a language model behind a URL that the operator has configured.
type Endpoint struct {
	// URL is where requests are posted to, with its path.
	URL     string
	Dialect Dialect
	Model   string
	// Key is sent with each request and in nothing else; empty if none is needed.
	Key string
	// Client is the guarded client by which it is reached.
	Client *fetch.Client
	// Pause is the wait before the first repetition after 429 and 5xx; 1 s when 0.
	Pause time.Duration
}

// turn is one part of a conversation: either the input to the model or its output.
type turn struct {
	// fromModel tells whose it is.
	fromModel bool
	text      string
	calls     []toolCall   // of the model
	results   []toolResult // for the model
}

type toolCall struct {
	id, name string
	args     jsontext.Value
}

type toolResult struct{ id, text string }

// tool is a function that the model may call. Its parameters are texts; some are required.
type tool struct {
	name, about string
	texts       map[string]string
	truths      map[string]string
	required    []string
}

// schema is the tool's parameters as JSON Schema.
func (t *tool) schema() map[string]any {
	properties := map[string]any{}
	for name, about := range t.texts {
		properties[name] = map[string]any{"type": "string", "description": about}
	}
	for name, about := range t.truths {
		properties[name] = map[string]any{"type": "boolean", "description": about}
	}
	return map[string]any{
		"type": "object", "properties": properties, "required": t.required,
		"additionalProperties": false,
	}
}

// bytesPerToken is how many bytes of JSON a token is at most: about 4 of English text, more of
// what tokenizers know as words.
const bytesPerToken = 8

// maxTries is how often a request is sent that was answered 429 or 5xx.
const maxTries = 3

// ask lets the model say the next thing, and returns it with the tokens that it cost.
func (e *Endpoint) ask(ctx context.Context, system string, turns []turn, tools []tool,
) (said turn, tokens int, err error) {
	body, err := e.request(system, turns, tools)
	if err != nil {
		return said, 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	header := http.Header{"Content-Type": {"application/json"}}
	switch {
	case e.Dialect == DialectAnthropic:
		header.Set("Anthropic-Version", anthropicVersion)
		if e.Key != "" {
			header.Set("X-Api-Key", e.Key)
		}
	case e.Key != "":
		header.Set("Authorization", "Bearer "+e.Key)
	}
	for try := 1; ; try++ {
		answer, err := e.Client.Do(ctx, &fetch.Request{
			Method: http.MethodPost, URL: e.URL, Header: header, Body: body,
		})
		if err != nil {
			return said, 0, fmt.Errorf("%w: the model: %w", ErrUnavailable, err)
		}
		if answer.Status == http.StatusOK {
			said, tokens, err = e.answer(answer.Body)
			// An endpoint that does not count, or counts less than was sent, is not believed.
			return said, max(tokens, (len(body)+len(answer.Body))/bytesPerToken+1), err
		}
		again := answer.Status == http.StatusTooManyRequests || answer.Status >= 500
		if !again || try == maxTries || !e.wait(ctx, try) {
			// Its text may repeat what was sent, the key included.
			return said, 0, fmt.Errorf("%w: the model answers %d", ErrUnavailable, answer.Status)
		}
	}
}

// wait waits before a repetition; false when ctx ended.
func (e *Endpoint) wait(ctx context.Context, try int) bool {
	pause := e.Pause
	pause = cmp.Or(pause, time.Second)
	timer := time.NewTimer(pause << (try - 1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// request is the body of a request in the endpoint's dialect.
func (e *Endpoint) request(system string, turns []turn, tools []tool) ([]byte, error) {
	body := map[string]any{"model": e.Model, "max_tokens": maxAnswerTokens}
	var offered []any
	if e.Dialect == DialectAnthropic {
		body["system"], body["messages"] = system, conversation(turns)
		for i := range tools {
			offered = append(offered, map[string]any{
				"name": tools[i].name, "description": tools[i].about, "input_schema": tools[i].schema(),
			})
		}
	} else {
		messages := []any{map[string]any{"role": "system", "content": system}}
		for i := range turns {
			messages = append(messages, turns[i].openAI()...)
		}
		for i := range tools {
			offered = append(offered, map[string]any{"type": "function", "function": map[string]any{
				"name": tools[i].name, "description": tools[i].about, "parameters": tools[i].schema(),
			}})
		}
		body["messages"] = messages
	}
	body["tools"] = offered
	return json.Marshal(body, json.Deterministic(true))
}

// openAI is a turn as messages: a result of a tool is one of its own.
func (t *turn) openAI() (messages []any) {
	for _, r := range t.results {
		messages = append(messages, map[string]any{
			"role": "tool", "tool_call_id": r.id, "content": r.text,
		})
	}
	if t.text == "" && len(t.calls) == 0 {
		return messages
	}
	if !t.fromModel {
		return append(messages, map[string]any{"role": "user", "content": t.text})
	}
	message := map[string]any{"role": "assistant", "content": t.text}
	var calls []any
	for _, c := range t.calls {
		calls = append(calls, map[string]any{
			"id": c.id, "type": "function",
			"function": map[string]any{"name": c.name, "arguments": string(c.args)},
		})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return append(messages, message)
}

// blockMessage is one of a conversation in Anthropic's dialect.
type blockMessage struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

// conversation converts turns to messages. None is empty, and roles alternate, although a model may
// have said nothing.
func conversation(turns []turn) (messages []blockMessage) {
	for i := range turns {
		role, blocks := "user", turns[i].blocks()
		if turns[i].fromModel {
			role = "assistant"
		}
		last := len(messages) - 1
		switch {
		case len(blocks) == 0:
		case last >= 0 && messages[last].Role == role:
			messages[last].Content = append(messages[last].Content, blocks...)
		default:
			messages = append(messages, blockMessage{role, blocks})
		}
	}
	return messages
}

// blocks are what a turn is made of in Anthropic's dialect.
func (t *turn) blocks() (blocks []any) {
	for _, r := range t.results {
		blocks = append(blocks, map[string]any{
			"type": "tool_result", "tool_use_id": r.id, "content": r.text,
		})
	}
	if t.text != "" {
		blocks = append(blocks, map[string]any{"type": "text", "text": t.text})
	}
	for _, c := range t.calls {
		input := c.args
		if input.Kind() != '{' { // a model may say anything; what is said back to it is an object
			input = jsontext.Value("{}")
		}
		blocks = append(blocks, map[string]any{
			"type": "tool_use", "id": c.id, "name": c.name, "input": input,
		})
	}
	return blocks
}

// modelAnswer is what of an answer in either dialect is read.
type modelAnswer struct {
	Choices []struct {
		Message struct {
			Content   string `json:"content"`
			ToolCalls []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"message"`
	} `json:"choices"`
	Content []struct {
		Type  string         `json:"type"`
		Text  string         `json:"text"`
		ID    string         `json:"id"`
		Name  string         `json:"name"`
		Input jsontext.Value `json:"input"`
	} `json:"content"`
	Usage struct {
		Total  int `json:"total_tokens"`
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
	} `json:"usage"`
}

// answer reads what the model said.
func (e *Endpoint) answer(body []byte) (said turn, tokens int, err error) {
	var a modelAnswer
	if err = json.Unmarshal(body, &a); err != nil {
		return said, 0, fmt.Errorf("%w: the model's answer is not JSON", ErrUnavailable)
	}
	said.fromModel = true
	if e.Dialect == DialectAnthropic {
		for _, block := range a.Content {
			switch block.Type {
			case "text":
				said.text += block.Text
			case "tool_use":
				said.calls = append(said.calls, toolCall{block.ID, block.Name, block.Input})
			}
		}
	} else if len(a.Choices) > 0 {
		message := &a.Choices[0].Message
		said.text = message.Content
		for _, c := range message.ToolCalls {
			said.calls = append(said.calls, toolCall{
				c.ID, c.Function.Name, jsontext.Value(c.Function.Arguments),
			})
		}
	}
	for i, c := range said.calls {
		if !c.args.IsValid() || c.id == "" {
			// What is not JSON cannot be repeated to the model as JSON either.
			said.calls[i].args = jsontext.Value(`{}`)
		}
	}
	said.text = strings.ToValidUTF8(said.text, " ")
	said.calls = slices.Clip(said.calls[:min(len(said.calls), maxCalls)])
	return said, max(0, a.Usage.Total, a.Usage.Input+a.Usage.Output), nil
}
