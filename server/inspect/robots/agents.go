package robots

// Purpose is what an AI agent reads pages for.
type Purpose string

// The purposes.
const (
	ForUser     Purpose = "user"
	ForSearch   Purpose = "search"
	ForTraining Purpose = "training"
)

// Agent is an AI agent that says who it is.
type Agent struct {
	Name    string
	Purpose Purpose
}

// Agents are the AI agents that are asked about, as their makers document them. That training alone
// is blocked says nothing about agents that act for somebody.
var Agents = []Agent{
	{"ChatGPT-User", ForUser},
	{"Claude-User", ForUser},
	{"Perplexity-User", ForUser},
	{"MistralAI-User", ForUser},
	{"DuckAssistBot", ForUser},
	{"Meta-ExternalFetcher", ForUser},
	{"OAI-SearchBot", ForSearch},
	{"Claude-SearchBot", ForSearch},
	{"PerplexityBot", ForSearch},
	{"Applebot", ForSearch},
	{"GPTBot", ForTraining},
	{"ClaudeBot", ForTraining},
	{"CCBot", ForTraining},
	{"Google-Extended", ForTraining},
	{"Applebot-Extended", ForTraining},
	{"Meta-ExternalAgent", ForTraining},
	{"Bytespider", ForTraining},
}
