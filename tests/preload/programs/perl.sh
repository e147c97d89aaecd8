# SPDX-License-Identifier: MIT
# perl: hashes, strings, regular expressions, sorting, fork.
# needs: perl
# owner: perl
export PERL_HASH_SEED=0 PERL_PERTURB_KEYS=0
perl "$PROGRAMS/perl.pl"
