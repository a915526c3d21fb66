/** What a way to a server (a Service, a gateway, a mesh) adds to its latency. */
export interface Detour {
  /** In words, e.g. 'the Service'. */
  readonly by: string
  /** One request at a time by that way. */
  readonly way: DetourLatency
  /** In turn with it by the server's own address; undefined: it answers nobody. */
  readonly direct?: DetourLatency
}

interface DetourLatency {
  /** Answered ones. */
  readonly requests: number
  readonly p50Ms: number
  readonly p99Ms: number
}
