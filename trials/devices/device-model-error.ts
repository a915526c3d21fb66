/**
 * The requested GPU, architecture, precision or slice cannot be modelled: an error in the user's
 * input.
 */
export class DeviceModelError extends Error {
  /** Exit code of the command line for usage errors. */
  readonly exitCode = 2

  constructor(
    message: string,
    readonly hint?: string,
    /** Set where callers decide by the kind of error. */
    readonly kind?: 'no-such-gpu',
  ) {
    super(hint === undefined ? message : `${message}; ${hint}`)
    this.name = 'DeviceModelError'
  }
}
