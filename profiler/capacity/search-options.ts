import type { DeclaredDiscipline } from '../model/declared-discipline.ts'

/**
 * Requirements and prior knowledge of the caller of a capacity search. The tuning loop fills them
 * in, and every layer down to the search passes them on unchanged.
 */
export interface CapacitySearchOptions {
  /**
   * Capacity needed to beat the incumbent, requests per second. The search ends as 'pruned' once
   * the capacity is certain to be lower. Absent: nothing is pruned.
   */
  readonly capacityToBeatRps?: number
  /**
   * Capacity that the caller expects, requests per second. Fewer windows are needed where they
   * agree with it. A wrong expectation costs time and changes no figure.
   */
  readonly expectedRps?: number
  /**
   * Requests that warm servers of this type, from earlier ones (`estimateRequestsToWarm`). Absent:
   * the default number.
   */
  readonly warmUpRequests?: number
  /**
   * Service discipline that the server's configuration declares. Absent: the search looks for
   * workers, batches and refusals.
   */
  readonly discipline?: DeclaredDiscipline
}
