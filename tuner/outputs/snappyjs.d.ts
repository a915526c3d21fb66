/** The package has no types of its own. */
declare module 'snappyjs' {
  const snappy: {
    /** Snappy's block format. */
    compress(data: Uint8Array): Uint8Array
    uncompress(data: Uint8Array): Uint8Array
  }
  export default snappy
}
