#include "textflag.h"

// func Lines(at []Address)
TEXT ·Lines(SB), NOSPLIT, $0-24
	MOVQ at_base+0(FP), AX
	MOVQ at_len+8(FP), CX
	LEAQ (AX)(CX*8), CX

next:
	CMPQ AX, CX
	JGE  done
	MOVQ (AX), DX
	PREFETCHT0 (DX)
	ADDQ $8, AX
	JMP  next

done:
	RET
