package config

import "reflect"

// leftOut stands for a secret that is set.
const leftOut = "(left out)"

// TakeSecrets replaces each secret of the settings by a mark, and returns them: the fields with a
// tag secret, and all but the first word of a list of those.
func (c *Config) TakeSecrets() (secrets []string) {
	take := func(v reflect.Value) {
		if text := v.String(); text != "" {
			secrets = append(secrets, text)
			v.SetString(leftOut)
		}
	}
	var walk func(v reflect.Value, secret bool)
	walk = func(v reflect.Value, secret bool) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i), v.Type().Field(i).Tag.Get("secret") != "")
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), secret && i > 0)
			}
		case reflect.String:
			if secret {
				take(v)
			}
		}
	}
	walk(reflect.ValueOf(c).Elem(), false)
	return secrets
}
