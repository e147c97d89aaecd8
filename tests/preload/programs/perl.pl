# SPDX-License-Identifier: MIT
# Work for perl's heap, which asks malloc for every string and every hash entry.
use strict;
use warnings;

my $state = 1;
sub next_number { return $state = ($state * 1103515245 + 12345) % 2147483648; }

my %words;
for my $i (1 .. 200000) {
	$words{"word" . next_number() % 30000} .= chr(97 + $i % 26);
}
my $sum = 0;
for my $word (sort keys %words) {
	$sum = ($sum * 31 + length($words{$word}) * ord($words{$word})) % 1000000007;
}
print scalar(keys %words), " $sum\n";

my $text = join(" ", map { "item$_=" . next_number() % 1000 } 1 .. 50000);
my @found = $text =~ /item(\d+)=(\d*7\d*)/g;
print scalar(@found), " ", length($text =~ s/\d+/<$&>/gr), "\n";

my @nested = map { { name => "n$_", list => [ map { $_ * 2 } 1 .. $_ % 50 ] } } 1 .. 5000;
@nested = sort { @{ $b->{list} } <=> @{ $a->{list} } || $a->{name} cmp $b->{name} } @nested;
print join(",", map { $_->{name} } @nested[0 .. 20]), "\n";
undef @nested;

for my $child (1 .. 5) {
	my $pid = fork();
	if ($pid == 0) {
		my @many = map { "x" x $_ } 1 .. 2000;
		exit(length(join("", @many)) % 100);
	}
	waitpid($pid, 0);
	print $? >> 8, "\n";
}
print `echo from a shell`;
