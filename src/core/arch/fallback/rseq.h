/* SPDX-License-Identifier: MIT */
/* Where there are no restartable sequences each of core/arch/rseq_function.h fails. */
#ifndef SLUB_ARCH_FALLBACK_RSEQ_H
#define SLUB_ARCH_FALLBACK_RSEQ_H

static inline bool sequence_is_none(int nr_arguments, ...)
{
	(void)nr_arguments;
	return true;
}

#define RSEQ_NONE(...)							\
	do {								\
		if (sequence_is_none(0, __VA_ARGS__))			\
			goto failed;					\
		goto aborted;						\
	} while (0)

#define RSEQ_NONE_OUT(out_, ...)					\
	do {								\
		out_ = 0;						\
		RSEQ_NONE(__VA_ARGS__);					\
	} while (0)

#define RSEQ_POP_IN(entrance_, object_, slot_, t_)			\
	RSEQ_NONE_OUT(object_, slot_, t_ = 0)
#define RSEQ_PUSH_IN(entrance_, object_, slot_, t_)			\
	RSEQ_NONE(object_, slot_, t_ = 0)
#define RSEQ_POP_KEY_IN(entrance_, object_, slot_, t_, key_)		\
	RSEQ_NONE_OUT(object_, slot_, key_, t_ = 0)
#define RSEQ_PUSH_KEY_IN(entrance_, object_, slot_, t_, key_)		\
	RSEQ_NONE(object_, slot_, key_, t_ = 0)
#define RSEQ_POP_TAIL_IN(entrance_, object_, slot_, t_, key_)		\
	RSEQ_NONE_OUT(object_, slot_, key_ = 0, t_ = 0)
#define RSEQ_PUSH_TAIL_IN	RSEQ_PUSH_KEY_IN
#define RSEQ_POP_LINK(object_, slot_, t_, link_)			\
	RSEQ_NONE_OUT(object_, slot_, link_, t_ = 0)
#define RSEQ_PUSH_LINK(object_, slot_, t_, link_)			\
	RSEQ_NONE(object_, slot_, link_, t_ = 0)
#define RSEQ_POP_PAGE		RSEQ_POP_LINK
#define RSEQ_PUSH_PAGE		RSEQ_PUSH_LINK
#define RSEQ_POP_PAGE_AT(object_, slot_, t_, at_, bias_)		\
	RSEQ_NONE_OUT(object_, slot_, bias_, at_ = 0, t_ = 0)
#define RSEQ_POP_LIVE(object_, slot_, t_)				\
	RSEQ_NONE_OUT(object_, slot_, t_ = 0)
#define RSEQ_PUSH_BOUNDED	RSEQ_PUSH_LINK
#define RSEQ_TAKE(chain_, slot_, t_, room_, limit_, at_)		\
	RSEQ_NONE_OUT(chain_, slot_, room_, limit_, at_, t_ = 0)
#define RSEQ_PUT(chain_, slot_, t_, room_, limit_, at_)			\
	RSEQ_NONE(chain_, slot_, room_, limit_, at_, t_ = 0)
#define RSEQ_POP_BULK(i_, ...)	RSEQ_NONE_OUT(i_, __VA_ARGS__)
#define RSEQ_POP_BULK_KEY	RSEQ_POP_BULK
#define RSEQ_POP_BULK_LINK_KEY	RSEQ_POP_BULK
#define RSEQ_PUSH_BULK(...)	RSEQ_NONE(__VA_ARGS__)
#define RSEQ_PUSH_BULK_KEY	RSEQ_PUSH_BULK
#define RSEQ_ADD(suffix_, modifier_, offset_, n_, t_)			\
	RSEQ_NONE(offset_, n_, t_ = 0)
#define RSEQ_FETCH_ADD		RSEQ_ADD
#define RSEQ_CMPXCHG(suffix_, modifier_, offset_, old_, new_, t_)	\
	RSEQ_NONE(offset_, old_, new_, t_ = 0)

#endif
