/* SPDX-License-Identifier: MIT */
/* The names of slub/kernel.h, one by one; a second file that includes it. */
#include <slub/kernel.h>
#include <slub/group.h>

#include "kernel_module.h"

#define CHECK(condition)						\
	do {								\
		if (!(condition))					\
			return __LINE__;				\
	} while (0)

struct counters {
	uint64_t u64;
	int32_t s32;
	uint16_t u16;
	uint8_t u8[3];
	void *pointer;
};

/* The sum over all CPUs of one member, whichever CPU this thread is on. */
#define SUM(p, member) ({						\
	int64_t sum_ = 0;						\
	int cpu_;							\
	for_each_possible_cpu(cpu_)					\
		sum_ += per_cpu_ptr(p, cpu_)->member;			\
	sum_; })

int check_percpu(void)
{
	struct counters __percpu *c = alloc_percpu(struct counters);
	int __percpu *plain = alloc_percpu(int);
	int cpu, pointers = 0, old;

	CHECK(c && plain && num_possible_cpus() > 0 && nr_cpu_ids > 0);
	this_cpu_add(c->u64, 1ull << 40);
	this_cpu_inc(c->u64);
	this_cpu_sub(c->u64, 2);
	CHECK(SUM(c, u64) == (1ll << 40) - 1);
	this_cpu_dec(c->s32);
	__this_cpu_add(c->s32, -5);
	CHECK(SUM(c, s32) == -6 && SUM(c, u16) == 0);
	for (int i = 0; i < 300; i++) {
		raw_cpu_inc(c->u8[1]);
		raw_cpu_add(c->u16, 1000);
	}
	/* Modulo the type on one CPU; the neighbours are not touched. */
	CHECK((SUM(c, u8[1]) & 0xff) == (300 & 0xff));
	CHECK((SUM(c, u16) & 0xffff) == (300000 & 0xffff));
	CHECK(SUM(c, u8[0]) == 0 && SUM(c, u8[2]) == 0);
	CHECK(SUM(c, s32) == -6);
	this_cpu_write(c->pointer, &pointers);
	for_each_possible_cpu(cpu)
		pointers += per_cpu_ptr(c, cpu)->pointer == &pointers;
	CHECK(pointers == 1);

	/* On one CPU's word these are exact only if the thread stays: try. */
	for (int i = 0; i < 1000; i++) {
		this_cpu_write(*plain, 5);
		old = this_cpu_cmpxchg(*plain, 5, -7);
		if (old == 5 && this_cpu_read(*plain) == -7 &&
		    this_cpu_add_return(*plain, 3) == -4 &&
		    this_cpu_sub_return(*plain, 1) == -5 &&
		    this_cpu_xchg(*plain, 0x0f) == -5) {
			this_cpu_or(*plain, 0x30);
			this_cpu_and(*plain, 0x31);
			if (this_cpu_read(*plain) == 0x31 &&
			    this_cpu_cmpxchg(*plain, 5, 6) == 0x31)
				goto exact;
		}
	}
	return __LINE__;
exact:
	free_percpu(plain);
	free_percpu(c);
	free_percpu(NULL);
	return 0;
}

/* The whole room of a block, of which the compiler must not know the size. */
static __attribute__((__noinline__)) void fill_room(void *block, int byte)
{
	memset(block, byte, ksize(block));
}

/* Zero wherever it grows to, in its room or beyond, whatever lay there before. */
static int check_krealloc_zero(void)
{
	static const size_t sizes[] = { 100, 110, 200, 207, 50, 112, 5000 };
	unsigned char *many[64], *p;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 64; i++) {
			many[i] = kmalloc(round ? 100 : 200, GFP_KERNEL);
			CHECK(many[i]);
			fill_room(many[i], 0xdd);
		}
		for (int i = 0; i < 64; i++)
			kfree(many[i]);
	}
	p = NULL;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t before = i ? sizes[i - 1] : 0;

		p = krealloc(p, sizes[i], GFP_KERNEL | __GFP_ZERO);
		CHECK(p);
		for (size_t n = before; n < sizes[i]; n++)
			CHECK(p[n] == 0);
		memset(p, 0xee, sizes[i]);
	}
	kfree(p);
	return 0;
}

int check_kmalloc(void)
{
	unsigned char *p = kzalloc(100, GFP_KERNEL), *q;
	void *many[2];
	int *array;

	CHECK(p && ksize(p) >= 100 && p[99] == 0);
	fill_room(p, 0xee);
	q = krealloc(p, 5000, GFP_KERNEL | __GFP_ZERO);
	CHECK(q && q[99] == 0xee && q[200] == 0 && q[4999] == 0);
	CHECK(krealloc(q, 0, GFP_KERNEL) == NULL);
	CHECK(check_krealloc_zero() == 0);
	/* There is room behind the 100 bytes: nobody may take that for an overflow. */
	p = kmalloc(100, GFP_KERNEL);
	CHECK(p);
	kfree_sensitive(p);
	array = kcalloc(100, sizeof(*array), GFP_ATOMIC);
	CHECK(array && array[99] == 0);
	array = krealloc_array(array, 200, sizeof(*array), GFP_KERNEL);
	CHECK(array && array[99] == 0);
	CHECK(krealloc_array(array, SIZE_MAX / 2, 8, GFP_KERNEL) == NULL);
	kfree_sensitive(array);
	CHECK(kmalloc_array(SIZE_MAX / 2, 3, GFP_KERNEL) == NULL);
	CHECK(ZERO_OR_NULL_PTR(kmalloc(SIZE_MAX, GFP_KERNEL)));
	for (size_t n = 8; n <= 4096; n *= 2) {
		p = kmalloc(n, GFP_KERNEL | __GFP_NOFAIL | __GFP_MEMALLOC);
		CHECK(p && (uintptr_t)p % (n < 16 ? 16 : n) == 0);
		kfree(p);
	}
	p = kvmalloc(10 << 20, GFP_KERNEL);
	CHECK(p);
	p[(10 << 20) - 1] = 1;
	kvfree(p);
	p = kmemdup("text", 5, GFP_KERNEL);
	CHECK(p && strcmp((char *)p, "text") == 0);
	many[0] = p;
	many[1] = kmalloc_node(10, GFP_KERNEL, NUMA_NO_NODE);
	kfree_bulk(2, many);
	array = kcalloc_node(10, sizeof(*array), GFP_KERNEL, 0);
	CHECK(array && array[9] == 0 && !kmalloc_array_node(SIZE_MAX, 2, GFP_KERNEL, 0));
	kfree(array);
	kfree(NULL);
	CHECK(gfpflags_allow_blocking(GFP_KERNEL));
	CHECK(!gfpflags_allow_blocking(GFP_ATOMIC));
	return 0;
}

/* A header with a number of elements behind it. */
struct flexible {
	int nr;
	uint64_t elements[];
};

int check_sizes(void)
{
	struct flexible *p = NULL;
	size_t bytes;

	CHECK(struct_size(p, elements, 3) == sizeof(*p) + 24 && struct_size(p, elements, 0) == 8);
	CHECK(flex_array_size(p, elements, 5) == 40);
	CHECK(struct_size_t(struct flexible, elements, 1) == 16);
	CHECK(struct_size(p, elements, SIZE_MAX / 8 + 1) == SIZE_MAX);
	CHECK(array_size(3, 7) == 21 && array3_size(2, 3, 4) == 24);
	CHECK(array3_size(SIZE_MAX, 2, 0) == 0 && array3_size(SIZE_MAX / 2, 3, 1) == SIZE_MAX);
	CHECK(size_add(SIZE_MAX, 1) == SIZE_MAX && size_add(1, 2) == 3);
	CHECK(size_sub(3, 2) == 1 && size_sub(2, 3) == SIZE_MAX);
	CHECK(size_sub(SIZE_MAX, 1) == SIZE_MAX);
	CHECK(!check_add_overflow((size_t)1, (size_t)2, &bytes) && bytes == 3);
	CHECK(check_sub_overflow((size_t)1, (size_t)2, &bytes));
	CHECK(check_mul_overflow(SIZE_MAX, (size_t)2, &bytes));
	p = kmalloc(struct_size(p, elements, SIZE_MAX / 4), GFP_KERNEL);
	CHECK(!p);
	p = kzalloc(struct_size(p, elements, 4), GFP_KERNEL);
	CHECK(p && ksize(p) >= 40 && p->elements[3] == 0);
	kfree(p);
	return 0;
}

int check_strings(void)
{
	char *text = kasprintf(GFP_KERNEL, "%s-%d", "session", 70000), *copy;
	volatile size_t huge = SIZE_MAX;	/* the compiler warns of what it can see */

	CHECK(text && strcmp(text, "session-70000") == 0);
	copy = kstrndup(text, 7, GFP_KERNEL);
	CHECK(copy && strcmp(copy, "session") == 0);
	kfree(copy);
	copy = kstrndup(text, 70, GFP_KERNEL);
	CHECK(copy && strcmp(copy, text) == 0);
	kfree(copy);
	copy = kmemdup_nul(text + 8, 2, GFP_KERNEL);
	CHECK(copy && strcmp(copy, "70") == 0);
	kfree(copy);
	CHECK(!kstrndup(NULL, 3, GFP_KERNEL) && !kmemdup_nul(NULL, 3, GFP_KERNEL));
	CHECK(!kmemdup_nul(text, huge, GFP_KERNEL));
	kfree(text);
	return 0;
}

int check_pages(void)
{
	unsigned long one = __get_free_page(GFP_KERNEL), eight;
	char *p;

	CHECK(one && one % PAGE_SIZE == 0);
	memset((void *)one, 0xee, PAGE_SIZE);
	free_page(one);
	one = get_zeroed_page(GFP_HIGHUSER);
	CHECK(one && ((char *)one)[0] == 0 && ((char *)one)[PAGE_SIZE - 1] == 0);
	free_page(one);
	eight = __get_free_pages(GFP_KERNEL, 3);
	CHECK(eight && eight % (8 * PAGE_SIZE) == 0);
	free_pages(eight, 3);
	free_page(0);
	p = vzalloc(3 * PAGE_SIZE + 1);
	CHECK(p && (uintptr_t)p % PAGE_SIZE == 0 && p[3 * PAGE_SIZE] == 0);
	kmemleak_update_trace(p);
	vfree(p);
	p = vmalloc(100);
	CHECK(p && ksize(p) >= PAGE_SIZE);
	kvfree(p);
	CHECK(!vmalloc(0) && !vmalloc(SIZE_MAX));
	vfree(NULL);
	return 0;
}

static void construct(void *object)
{
	*(int *)object = 17;
}

int check_caches(void)
{
	struct kmem_cache_args args = {
		.align = 128, .ctor = construct, .sheaf_capacity = 16,
	};
	struct kmem_cache *a = kmem_cache_create("kernel_a", 100, &args, SLAB_NO_MERGE);
	struct kmem_cache *b = kmem_cache_create("kernel_b", 100, 64, SLAB_TYPESAFE_BY_RCU, NULL);
	struct kmem_cache *c = kmem_cache_create_usercopy("kernel_c", 100, 0, 0, 8, 16, NULL);
	kmem_buckets *buckets = kmem_buckets_create("kernel_buckets", 0, 0, 0, NULL);
	void *objects[50];
	int *p;

	CHECK(a && b && c && buckets);
	p = kmem_cache_alloc(a, GFP_KERNEL);
	CHECK(p && *p == 17 && (uintptr_t)p % 128 == 0);
	CHECK(kmem_cache_zalloc(a, GFP_KERNEL) == NULL);
	kmem_cache_free(a, p);
	CHECK(kmem_cache_size(a) == 100);
	CHECK(kmem_cache_alloc_bulk(b, GFP_KERNEL, 50, objects) == 50);
	kmem_cache_free_bulk(b, 50, objects);
	p = kmem_cache_alloc_node(c, GFP_KERNEL | __GFP_ZERO, 0);
	CHECK(p && p[10] == 0 && slub_copy_allowed((char *)p + 8, 16) &&
	      !slub_copy_allowed(p, 16));
	kfree(p);
	p = kmem_buckets_alloc(buckets, 60, GFP_KERNEL | __GFP_ZERO);
	CHECK(p && p[14] == 0);
	kfree(p);
	CHECK(kmem_cache_shrink(a) == 0);
	CHECK(slub_bucket_destroy(buckets) == 0);
	kmem_cache_destroy(a);
	kmem_cache_destroy(b);
	kmem_cache_destroy(c);
	kmem_cache_destroy(NULL);
	return 0;
}

int check_pools(void)
{
	struct kmem_cache *cache = kmem_cache_create("kernel_pool", 64, NULL, 0);
	mempool_t *slab = mempool_create_slab_pool(3, cache);
	mempool_t *blocks = mempool_create(2, mempool_kmalloc, mempool_kfree, (void *)(size_t)100);
	mempool_t *sized = mempool_create_kmalloc_pool(2, 100);
	struct qmempool *q = qmempool_create(16, 32, 8, cache, GFP_KERNEL);
	void *p;

	CHECK(slab && blocks && sized && q);
	CHECK(mempool_create(0, mempool_kmalloc, mempool_kfree, NULL) == NULL);
	CHECK(mempool_create(-1, mempool_kmalloc, mempool_kfree, NULL) == NULL);
	p = mempool_alloc(slab, GFP_ATOMIC);
	CHECK(p);
	mempool_free(p, slab);
	p = mempool_alloc_preallocated(slab);
	CHECK(p);
	mempool_free(p, slab);
	p = mempool_alloc(blocks, GFP_KERNEL);
	CHECK(p && ksize(p) >= 100);
	mempool_free(p, blocks);
	CHECK(mempool_resize(sized, 5) == 0 && mempool_resize(sized, -5) == -EINVAL);
	p = qmempool_alloc(q, GFP_ATOMIC);
	CHECK(p);
	__qmempool_free_softirq(q, p);
	qmempool_destroy(q);
	mempool_destroy(slab);
	mempool_destroy(blocks);
	mempool_destroy(sized);
	mempool_destroy(NULL);
	return slub_cache_destroy(cache) ? __LINE__ : 0;
}

DEFINE_STATIC_SRCU(domain);

int check_rcu(void)
{
	struct srcu_struct own;
	int index, nested;
	int *shared = kmalloc(sizeof(int), GFP_KERNEL), *seen;

	*shared = 5;
	rcu_read_lock();
	rcu_read_lock();
	CHECK(rcu_read_lock_held());
	seen = rcu_dereference(shared);
	RCU_INIT_POINTER(shared, NULL);
	kfree_rcu(seen, rcu);
	rcu_read_unlock();
	CHECK(rcu_read_lock_held() && *seen == 5);
	rcu_read_unlock();
	CHECK(!rcu_read_lock_held());
	synchronize_rcu();
	kvfree_rcu_barrier();

	CHECK(init_srcu_struct(&own) == 0);
	index = srcu_read_lock(&own);
	nested = srcu_read_lock(&domain);
	srcu_read_unlock(&domain, nested);
	synchronize_srcu(&domain);
	srcu_read_unlock(&own, index);
	synchronize_srcu(&own);
	cleanup_srcu_struct(&own);
	return 0;
}

/* ---- what must not fail is asked for until there is room ---- */

struct refusals {
	int nr;
	int nr_max;	/* the last of them makes room, and says nothing of it; 0: none */
};

static bool relent(struct slub_group *group, size_t bytes, void *arg)
{
	struct refusals *refusals = arg;

	(void)bytes;
	if (++refusals->nr == refusals->nr_max)
		slub_group_limit_set(group, SLUB_GROUP_MAX, SLUB_GROUP_NO_LIMIT);
	return false;
}

/* What one request asks for that is refused, and then as much as three of them. */
static int expect_refused(struct slub_group *group, struct refusals *refusals, bool is_refused)
{
	CHECK(is_refused && refusals->nr > 0);
	refusals->nr_max = 3 * refusals->nr;
	refusals->nr = 0;
	CHECK(!slub_group_limit_set(group, SLUB_GROUP_MAX, 0));
	return 0;
}

static int check_nofail_bulk(struct slub_group *group, struct refusals *refusals,
			     struct kmem_cache *s)
{
	void *many[4];

	CHECK(!slub_group_limit_set(group, SLUB_GROUP_MAX, 0));
	CHECK(!expect_refused(group, refusals,
			      kmem_cache_alloc_bulk(s, GFP_KERNEL, 4, many) == 0));
	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL | __GFP_NOFAIL, 0, NULL) == 0);
	CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL | __GFP_NOFAIL, 4, many) == 4);
	kmem_cache_free_bulk(s, 4, many);
	CHECK(refusals->nr == refusals->nr_max);
	return 0;
}

static int check_nofail_bucket(struct slub_group *group, struct refusals *refusals,
			       kmem_buckets *b)
{
	void *p;

	CHECK(!slub_group_limit_set(group, SLUB_GROUP_MAX, 0));
	CHECK(!expect_refused(group, refusals, !kmem_buckets_alloc(b, 5000, GFP_KERNEL)));
	p = kmem_buckets_alloc(b, 5000, GFP_KERNEL | __GFP_ZERO | __GFP_NOFAIL);
	CHECK(p && refusals->nr == refusals->nr_max);
	kfree(p);
	return 0;
}

int check_nofail(void)
{
	struct kmem_cache *s = kmem_cache_create("nofail", 5000, 0, SLAB_ACCOUNT, NULL);
	kmem_buckets *b = kmem_buckets_create("nofail", SLAB_ACCOUNT, 0, 0, NULL);
	struct slub_group *group = slub_group_create("nofail", NULL);
	struct refusals bulk = { 0, 0 }, bucket = { 0, 0 };
	int line;

	CHECK(s && b && group);
	CHECK(!slub_group_handler_set(group, relent, &bulk));
	slub_group_enter(group);
	line = check_nofail_bulk(group, &bulk, s);
	slub_group_handler_set(group, relent, &bucket);
	if (!line)
		line = check_nofail_bucket(group, &bucket, b);
	/* Whatever fails is told in memory of nobody's. */
	slub_group_leave(group);
	slub_group_handler_set(group, NULL, NULL);
	CHECK(slub_bucket_destroy(b) == 0);
	kmem_cache_destroy(s);
	CHECK(slub_group_destroy(group) == 0);
	return line;
}
