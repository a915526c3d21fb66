/** The gate's parts in virtual time, in the order of its table. */
import { capacity } from './capacity.ts'
import { productSearch } from './product-search.ts'
import { searchOnTables } from './search-on-tables.ts'
import { simulatedJob } from './simulated-job.ts'
import type { Part } from './types.ts'

export const virtualParts: readonly Part[] = [capacity, searchOnTables, productSearch, simulatedJob]
