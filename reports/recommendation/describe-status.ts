/** A status in words. Of a simulated run it claims no load test: nothing was measured. */
import type { Provenance } from '../../trials/types.ts'
import { type Status, statuses } from './status.ts'

/** Statuses, and what a simulated run says instead of those that name a load test. */
type StatusName = Status | 'simulated'

interface StatusWords {
  readonly name: StatusName
  readonly meaning: string
}

const computed: StatusWords = {
  name: 'simulated',
  meaning: 'models of servers and load computed it; nothing was measured',
}

const simulated: Readonly<Partial<Record<Status, StatusWords>>> = {
  confirmed: computed,
  met: computed,
  measured: computed,
  refuted: { name: 'refuted', meaning: 'its second simulated load test violated the SLO' },
}

/** Name and meaning of a status, for every place where people read it. */
export const describeStatus = (status: Status, provenance: Provenance): StatusWords =>
  (provenance === 'simulated' ? simulated[status] : undefined) ?? {
    name: status,
    meaning: statuses[status],
  }

/** 'Status: measured (measured once).' */
export function formatStatusSentence(status: Status, provenance: Provenance): string {
  const { name, meaning } = describeStatus(status, provenance)
  return `Status: ${name} (${meaning}).`
}
