/** TLS options of a client. */
export interface TlsOptions {
  /** Certificate authorities that replace the default ones, PEM. */
  readonly ca?: string
  /** Accepts any certificate. */
  readonly insecureSkipVerify?: boolean
  /** Client certificate and its key, PEM. */
  readonly cert?: string
  readonly key?: string
}
