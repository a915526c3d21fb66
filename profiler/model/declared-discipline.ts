/**
 * Service discipline that a server's configuration declares: workers that serve in arrival order,
 * with or without dynamic batching (a G/G/c queue with bulk service).
 */
export interface DeclaredDiscipline {
  /** Requests or batches that are served at the same time: instances, processes. */
  readonly workers: number
  /** Requests in a full batch; 1 without batching. */
  readonly maxBatch: number
  /** Time for which a batch that is not full waits for more, ms. */
  readonly maxDelayMs: number
  /**
   * Start of that time: the arrival of the oldest request (default: Triton, TensorFlow Serving), or
   * the later of that and a free worker (TorchServe, Ray Serve).
   */
  readonly delayFrom?: 'arrival' | 'free worker'
  /** Requests that may wait; further ones are refused. Absent: any number. */
  readonly queueLimit?: number
}
