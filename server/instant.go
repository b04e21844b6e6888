package server

// ParseInstant reads an RFC 3339 date-time with any offset and returns milliseconds since 1970
// UTC; what is finer than a millisecond is cut off. Years 0001–9999; no leap seconds.
func ParseInstant(text []byte) (ms int64, ok bool) {
	if len(text) < 20 || text[4] != '-' || text[7] != '-' || text[10]|0x20 != 't' ||
		text[13] != ':' || text[16] != ':' {
		return 0, false
	}
	year, ok1 := number(text[0:4], 1, 9999)
	month, ok2 := number(text[5:7], 1, 12)
	day, ok3 := number(text[8:10], 1, 31)
	hour, ok4 := number(text[11:13], 0, 23)
	minute, ok5 := number(text[14:16], 0, 59)
	second, ok6 := number(text[17:19], 0, 59)
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || day > daysIn(year, month) {
		return 0, false
	}
	millis, rest, ok := fraction(text[19:])
	if !ok {
		return 0, false
	}
	offset, ok := offsetMinutes(rest)
	if !ok {
		return 0, false
	}
	minutes := (days(year, month, day)*24+int64(hour))*60 + int64(minute) - int64(offset)
	return (minutes*60+int64(second))*1000 + millis, true
}

func number(text []byte, minimum, maximum int) (n int, ok bool) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n >= minimum && n <= maximum
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

// days counts the days since 1970-01-01 in the proleptic Gregorian calendar, with years that begin
// in March so that the leap day comes last.
func days(year, month, day int) int64 {
	y, m := int64(year), int64(month)
	if m <= 2 {
		y, m = y-1, m+12
	}
	return 365*y + y/4 - y/100 + y/400 + (153*(m-3)+2)/5 + int64(day) - 719469
}

func fraction(text []byte) (millis int64, rest []byte, ok bool) {
	if text[0] != '.' {
		return 0, text, true
	}
	n := 1
	for scale := int64(100); n < len(text) && text[n] >= '0' && text[n] <= '9'; n++ {
		millis += int64(text[n]-'0') * scale
		scale /= 10
	}
	return millis, text[n:], n > 1
}

func offsetMinutes(text []byte) (minutes int, ok bool) {
	if len(text) == 1 {
		return 0, text[0]|0x20 == 'z'
	}
	if len(text) != 6 || text[3] != ':' || (text[0] != '+' && text[0] != '-') {
		return 0, false
	}
	h, ok1 := number(text[1:3], 0, 23)
	m, ok2 := number(text[4:6], 0, 59)
	minutes = h*60 + m
	if text[0] == '-' {
		minutes = -minutes
	}
	return minutes, ok1 && ok2
}
