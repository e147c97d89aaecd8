# SPDX-License-Identifier: MIT
# man-db, which shuts what reads a page into a seccomp filter that kills: manual pages, plain and
# compressed, one of them long, formatted for two widths; and their encodings changed.
# needs: man man-recode gzip nroff
# owner: man
for i in $(seq 20); do
	{
		printf '.TH PAGE %d "1 January 2026"\n' $i
		printf '.SH NAME\npage%d \\- one of many\n' $i
		for n in $(seq $((i * 40))); do
			printf '.SH "Section %d"\nText \\fBin bold\\fR of line %d.\n' $n $n
			printf '.PP\nMore.\n'
		done
	} > page$i.1
done
gzip -n page[5-9].1
for i in $(seq 20); do
	page=$(echo page$i.1*)
	MANWIDTH=80 man -P cat -l ./$page 2> err | sha256sum
	MANWIDTH=60 man -P cat -l ./$page 2>> err | wc
	man-recode -t UTF-8//TRANSLIT --suffix .new ./$page 2>> err
	sha256sum < page$i.1.new
	cat err
done
