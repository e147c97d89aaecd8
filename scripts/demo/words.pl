# SPDX-License-Identifier: MIT
# Hashes and strings that come, grow and go.
use strict;
use warnings;

my ($seed, %count, %list) = (1);

sub word {
	$seed = ($seed * 1103515245 + 12345) & 0x7fffffff;
	return join '', map { chr(97 + ($seed >> $_) % 26) } 0 .. $seed % 9 + 2;
}

for my $turn (1 .. 350_000) {
	my $word = word();
	$count{substr $word, 0, 4} .= $word;
	push @{ $list{ length $word } }, $word;
	if ($turn % 50_000 == 0) {
		delete $count{$_} for grep { length $count{$_} > 40 } keys %count;
		$_ = [ grep { !/a/ } @$_ ] for values %list;
	}
}
my $text = join ' ', map { "$_=$count{$_}" } sort keys %count;
$text =~ s/([aeiou])/<$1>/g;
print length $text, "\n";
print "$_ ", scalar @{ $list{$_} }, "\n" for sort { $a <=> $b } keys %list;
