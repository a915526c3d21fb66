/**
 * A GPU, architecture, precision or slice that cannot be modelled as asked: the user's input is at
 * fault.
 */
export class DeviceModelError extends Error {
  /** Wrong input: the command line's exit code for usage. */
  readonly exitCode = 2

  constructor(
    message: string,
    readonly hint?: string,
    /** What cannot be had, where a decision depends on it. */
    readonly kind?: 'no-such-gpu',
  ) {
    super(hint === undefined ? message : `${message}; ${hint}`)
    this.name = 'DeviceModelError'
  }
}
