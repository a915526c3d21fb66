/** The flags of `tune watch`. */
export interface WatchFlags {
  readonly db: string
  readonly prometheus?: string
  readonly log?: string
  readonly server?: string
  readonly selector: string
  readonly query: readonly string[]
  readonly logFormat?: string
  readonly field: readonly string[]
  readonly path: readonly string[]
  readonly versionLabel?: string
  readonly replicas?: string
  readonly trial?: string
  readonly window: string
  readonly since: string
  readonly tolerance: string
  readonly falseAlarmDays: string
  readonly detour?: string
  readonly prices?: string
  readonly headroom?: string
  readonly minGain: string
  readonly out?: string
  readonly target: string
  readonly name?: string
  readonly reset?: boolean
  readonly once?: boolean
  readonly json?: boolean
}
