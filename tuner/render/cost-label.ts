import { latency, money, rate } from '../../reports/format.ts'
import type { Candidate } from '../../reports/recommendation/types.ts'
import type { Objective } from '../../search/types.ts'

/** What a candidate is ranked by, in words: '$0.114 per million requests', '$1.2/h for 3 replicas'. */
export function costLabel(candidate: Candidate, objective: Objective): string {
  switch (objective.kind) {
    case 'price-per-request':
      return `${money(candidate.pricePerMillionRequests)} per million requests`
    case 'price-for-demand':
      return `${money(candidate.totalPricePerHour ?? candidate.pricePerHour)}/h for ${candidate.replicas ?? 1} replica${candidate.replicas === 1 ? '' : 's'}`
    case 'price':
      return `${money(candidate.pricePerHour)}/h`
    case 'max-rate':
      return rate(candidate.capacityRps)
    case 'min-latency':
      return `${latency(candidate.cost)} unloaded`
  }
}
