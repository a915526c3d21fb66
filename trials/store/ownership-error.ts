/** The error for an experiment that another process may still run. */
import type { Owner, OwnerState } from './owner.ts'
import { StoreError } from './store-error.ts'

export const createOwnedElsewhereError = (
  id: string,
  { owner, state }: { readonly owner: Owner; readonly state: OwnerState },
): StoreError =>
  state === 'unknown'
    ? new StoreError(
        'owned-elsewhere',
        `experiment ${id} was started on ${owner.host} (process ${owner.pid}); this machine cannot tell whether it still runs`,
        `finish or interrupt it on ${owner.host}`,
      )
    : new StoreError(
        'owned-elsewhere',
        `process ${owner.pid} is running experiment ${id}`,
        `wait for it, or stop it (kill ${owner.pid}) and try again`,
      )
