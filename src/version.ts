declare const ERRAND_VERSION: string | undefined;
declare const ERRAND_COMMIT: string | undefined;

/** Both are written into the binary by the build; run from source they are not there. */
export const VERSION = typeof ERRAND_VERSION === "string" ? ERRAND_VERSION : "0.0.0-source";
export const COMMIT = typeof ERRAND_COMMIT === "string" ? ERRAND_COMMIT : "unknown";
