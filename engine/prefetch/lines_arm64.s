#include "textflag.h"

// func Lines(at []Address)
TEXT ·Lines(SB), NOSPLIT, $0-24
	MOVD at_base+0(FP), R0
	MOVD at_len+8(FP), R1
	ADD  R1<<3, R0, R1

next:
	CMP  R1, R0
	BHS  done
	MOVD.P 8(R0), R2
	PRFM (R2), PLDL1KEEP
	B    next

done:
	RET
