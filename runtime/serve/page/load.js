// Loads libraries when they are first needed. They are files of this server.

const loaded = new Map();

function once(path, make) {
  if (!loaded.has(path)) {
    loaded.set(path, new Promise((resolve, reject) => {
      const element = make();
      element.addEventListener("load", () => resolve());
      element.addEventListener("error", () => {
        loaded.delete(path);
        element.remove();
        reject(new Error(`${path} could not be loaded`));
      });
      document.head.append(element);
    }));
  }
  return loaded.get(path);
}

/// Resolves when the script has run; the same script runs once.
export function loadScript(path) {
  return once(path, () => {
    const script = document.createElement("script");
    script.src = path;
    return script;
  });
}

export function loadStyles(path) {
  return once(path, () => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = path;
    return link;
  });
}
