// SPDX-License-Identifier: MIT

/// A box is compared and hashed as its value is, as its `Borrow` promises.
macro_rules! as_its_value {
    ($box:ident) => {
        impl<T: PartialEq> PartialEq<$box<'_, T>> for $box<'_, T> {
            fn eq(&self, other: &$box<'_, T>) -> bool {
                **self == **other
            }
        }

        impl<T: Eq> Eq for $box<'_, T> {}

        impl<T: PartialOrd> PartialOrd<$box<'_, T>> for $box<'_, T> {
            fn partial_cmp(&self, other: &$box<'_, T>) -> Option<core::cmp::Ordering> {
                (**self).partial_cmp(&**other)
            }
        }

        impl<T: Ord> Ord for $box<'_, T> {
            fn cmp(&self, other: &Self) -> core::cmp::Ordering {
                (**self).cmp(&**other)
            }
        }

        impl<T: core::hash::Hash> core::hash::Hash for $box<'_, T> {
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                (**self).hash(state)
            }
        }
    };
}
pub(crate) use as_its_value;
