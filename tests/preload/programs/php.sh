# SPDX-License-Identifier: MIT
# php with its own pools and, by USE_ZEND_ALLOC=0, with each of its allocations a malloc.
# needs: php
# owner: php
php "$PROGRAMS/php.php"
USE_ZEND_ALLOC=0 php "$PROGRAMS/php.php"
