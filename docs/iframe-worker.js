// A browser starts no worker for a page from disk. There the search runs in a hidden frame that offers the same:
// messages in, messages out, and scripts that can be loaded.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inner.importScripts = (...urls) => urls.reduce((earlier, next) => earlier.then(() => this.load(next)), this.ready);
      this.ready = this.load(url);
    }

    load(url) {
      const script = this.inner.document.createElement("script");
      return new Promise((done, failed) => {
        script.onload = done;
        script.onerror = failed;
        script.src = new URL(url, location.href).href;
        this.inner.document.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };
}
