/** How the certificate of a server is checked, and which one it is shown. */
export interface TlsOptions {
  /** Authorities to trust in place of the usual ones, PEM. */
  readonly ca?: string
  /** Any certificate is taken for good. */
  readonly insecureSkipVerify?: boolean
  /** The client's own certificate, and its key, PEM. */
  readonly cert?: string
  readonly key?: string
}
